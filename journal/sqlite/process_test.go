package sqlite_test

const childEnv = "PAWL_SQLITE_CHILD"

func runChild(string) int { return 0 }
