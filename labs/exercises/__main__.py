import sys

from labs.exercises.authoring import main

sys.exit(main(sys.argv[1:]))
