"""Faults: killed processes, full disks, databases that refuse; nothing acknowledged is lost, nothing is there twice."""
