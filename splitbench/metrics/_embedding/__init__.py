"""Deep features of images, from networks given as files."""
