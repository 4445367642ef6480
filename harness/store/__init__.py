"""The results database: SQLAlchemy models, Alembic migrations, queries."""
