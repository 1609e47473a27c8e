"""The neutral tree ensemble: prediction, files, exports, and readers of foreign models."""
