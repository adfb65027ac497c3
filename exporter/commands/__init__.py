"""One small module a command; `exporter.cli` picks one."""
