"""A generator and a critic of images, both told what they are made from."""
