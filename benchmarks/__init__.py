"""Speed and memory against the peers, measured alternately in one run; `python -m benchmarks` writes the results."""
