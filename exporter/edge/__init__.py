"""What the rooms that touch the outside world share: what is asked of them, a thread for calls that may hang, log lines."""
