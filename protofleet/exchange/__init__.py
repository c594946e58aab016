"""What crosses between devices and coordinator, and how it lies in files."""
