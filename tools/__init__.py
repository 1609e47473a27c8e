"""What is written from files: `python -m tools` fills the generated parts of README and docs, and draws the figures."""
