"""What is shipped: the wheel, the image, the compose file, the commands of the Makefile and the documentation."""
