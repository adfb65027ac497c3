"""What can be set, and where it is read from: YAML file < environment < flags. Nothing else in the house reads a setting."""
