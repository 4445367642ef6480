"""Plan, order, resume and execute a suite."""
