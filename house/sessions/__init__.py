"""What the sessions of the noxfile do, by area; the noxfile lists them."""
