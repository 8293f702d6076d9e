package postgres_test

const childEnv = "PAWL_POSTGRES_CHILD"

func runChild(string) int { return 0 }
