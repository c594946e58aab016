"""Things that a device saw and that are like no class: remembered, and put together by likeness."""
