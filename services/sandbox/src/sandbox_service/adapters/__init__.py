"""The executor port: for real (`zygotes`), scripted for tests (`scripted`), counted for Prometheus (`observed`)."""
