"""YAML to a validated Suite to Cases, with overrides and the case hash. Imports nothing heavy."""
