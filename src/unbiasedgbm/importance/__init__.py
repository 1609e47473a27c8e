"""Feature importance judged by rows that did not choose the splits."""
