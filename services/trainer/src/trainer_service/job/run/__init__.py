"""A run as its job sees it: config, schedule, checkpoints, exports, record, and reports to the service."""
