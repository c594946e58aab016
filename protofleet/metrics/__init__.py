"""What a process tells a monitoring system: values first, Prometheus's text at the edge."""
