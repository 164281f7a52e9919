"""The executor port: for real (`zygotes`), and scripted for tests (`scripted`)."""
