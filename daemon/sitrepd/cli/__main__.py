from sitrepd.cli import main

main()
