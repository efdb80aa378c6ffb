from composer_replication.cli.main import main

main()
