package postgres

// What Take does is one transaction in one round trip. The first statement chooses runs and locks them, the second one takes
// them: it began behind the locks, so it sees all that their last owners have written. Between them the server keeps the keys,
// in a setting of the transaction.
//
// Nothing is waited for but the turn of those who count what is held. A run that is locked is one that somebody else takes or
// writes. So there may be more candidates than are wanted; none is locked before it is its turn.
const (
	// A shared lock that can be had is that of a session which is lost; whether its store is gone is for witness to say. Holders
	// are looked up one after the other, not run by run.
	pickSome = `WITH RECURSIVE clock AS MATERIALIZED (SELECT now, now - $6::bigint * interval '1 us' AS past FROM clock_timestamp() AS now),
		holders AS (
			(SELECT holder FROM runs WHERE ` + isHeld + ` ORDER BY holder LIMIT 1)
			UNION ALL
			SELECT (SELECT holder FROM runs WHERE ` + isHeld + ` AND holder > h.holder ORDER BY holder LIMIT 1)
			FROM holders h WHERE h.holder IS NOT NULL
		), owners AS MATERIALIZED (
			SELECT holder, lost, lost AND holder = ANY ($8::bigint[]) AS gone
			FROM (SELECT holder, pg_try_advisory_xact_lock_shared(holder) AS lost FROM holders WHERE holder IS NOT NULL) AS h
		), held AS (
			SELECT FROM owners CROSS JOIN LATERAL (SELECT FROM runs
				WHERE ` + isHeld + ` AND holder = owners.holder AND ready > (SELECT now FROM clock) LIMIT $3) AS few
			WHERE NOT gone LIMIT $3
		), room AS MATERIALIZED (
			SELECT CASE WHEN pg_try_advisory_xact_lock_shared($2) THEN NULL WHEN $3::bigint <= 0 THEN $4::bigint
				ELSE least($4, $3 - (SELECT count(*) FROM held)) END AS n
		), candidates AS MATERIALIZED (`
	isHeld = `status = 'running' AND queue <> '' AND sha256(queue) = $1`

	// What is locked is looked at again: it may have changed meanwhile. IS TRUE keeps the planner from looking by time and by key.
	pickThem = `), picked AS (
			SELECT key FROM runs WHERE key = ANY (ARRAY(SELECT key FROM candidates)) AND (ready <= (SELECT past FROM clock)`
	andThem = `) IS TRUE
			ORDER BY ready, key LIMIT (SELECT greatest(n, 0) FROM room) FOR UPDATE SKIP LOCKED
		)
		SELECT set_config('pawl.picked', coalesce(array_agg(key), '{}')::text, true),
			(SELECT n FROM room), (SELECT count(*) FROM candidates),
			CASE WHEN $3 > 0 OR $9 THEN ARRAY(SELECT holder FROM owners WHERE lost) END
		FROM picked`

	oldestOf = ` ORDER BY ready, key LIMIT $5) AS oldest`
	readyOf  = ` CROSS JOIN LATERAL (SELECT key FROM runs
		WHERE program = p.program AND sha256(queue) = $1 AND ready <= (SELECT past FROM clock)` + oldestOf

	readyOfPrograms = `SELECT key FROM unnest($7::bytea[]) AS p (program)` + readyOf

	pickReady = pickSome + readyOfPrograms + pickThem + andThem

	pickOrphans = pickSome + readyOfPrograms + ` UNION ALL
			SELECT key FROM owners CROSS JOIN LATERAL (SELECT key FROM runs WHERE ` + isHeld + ` AND holder = owners.holder
				AND ready > (SELECT now FROM clock) AND program = ANY ($7)` + oldestOf + ` WHERE gone` + pickThem + `
			OR status = 'running' AND holder = ANY (ARRAY(SELECT holder FROM owners WHERE gone))` + andThem

	// Programs are looked up one after the other, not run by run.
	pickStranded = pickSome + `SELECT key FROM (
				WITH RECURSIVE programs AS (
					(SELECT program FROM runs WHERE ready IS NOT NULL ORDER BY program LIMIT 1)
					UNION ALL
					SELECT (SELECT program FROM runs WHERE ready IS NOT NULL AND program > p.program ORDER BY program LIMIT 1)
					FROM programs p WHERE p.program IS NOT NULL
				) SELECT program FROM programs WHERE program IS NOT NULL
					AND coalesce((SELECT seen FROM workers w WHERE w.program = programs.program AND w.queue = $1), '-infinity')
						< (SELECT past FROM clock) - $7::bigint * interval '1 us'
			) AS p` + readyOf + pickThem + andThem

	takePicked = `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
		UPDATE runs SET token = nextval('numbers'), status = 'running', owner = $1, holder = $2,
			updated = CASE status WHEN 'running' THEN updated ELSE clock.now END, due = NULL,
			ready = clock.now + $3::bigint * interval '1 us', until = clock.now + $3::bigint * interval '1 us'
		FROM clock, (SELECT key AS k, status AS was, ready AS since FROM runs
			WHERE key = ANY (current_setting('pawl.picked', true)::bigint[])) AS picked
		WHERE key = k RETURNING ` + runColumns + `, token, until, was, since`

	// awaitTurn makes those who heed a limit count one after the other.
	awaitTurn = `SELECT pg_advisory_xact_lock($1)`
)
