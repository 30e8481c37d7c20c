/** The rows of a whole database as text, to load them into an older schema. */
import type pg from 'pg'

/** A table and one of its rows as JSON per line, and the last values of its sequences. */
export async function dumpTables(pool: pg.Pool): Promise<string> {
  const lines: string[] = []
  for (const table of await tablesOf(pool)) {
    const { rows } = await pool.query<{ json: string }>(`select row_to_json(t)::text as json from ${table} t`)
    lines.push(...rows.map(({ json }) => `${table}\t${json}`))
  }
  const { rows } = await pool.query<{ name: string; value: string }>(
    `select format('%I.%I', schemaname, sequencename) as name, last_value::text as value from pg_sequences
     where last_value is not null`,
  )
  return [...lines, ...rows.map(({ name, value }) => `sequence ${name}\t${value}`)].join('\n')
}

/** Replaces everything. Constraints and triggers do not see it: it was valid where it came from. */
export async function loadTables(pool: pg.Pool, dump: string): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query(`set local session_replication_role = replica`)
    await client.query(`truncate ${(await tablesOf(pool)).join(', ')}`)
    for (const line of dump.split('\n')) {
      const [name = '', value = ''] = line.split('\t')
      if (name.startsWith('sequence ')) await client.query('select setval($1, $2)', [name.slice(9), value])
      else {
        const columns = await columnsOf(client, name)
        await client.query(
          `insert into ${name} (${columns}) overriding system value
           select ${columns} from json_populate_record(null::${name}, $1)`,
          [value],
        )
      }
    }
    await client.query('commit')
  } finally {
    client.release(true)
  }
}

/** Those that can be written: PostgreSQL computes the others. */
async function columnsOf(client: pg.PoolClient, table: string): Promise<string> {
  const { rows } = await client.query<{ columns: string }>(
    `select string_agg(quote_ident(attname), ', ') as columns from pg_attribute
     where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
    [table],
  )
  return rows[0]?.columns ?? ''
}

/** Partitions are part of their table, and the list of migrations is that of the files. */
async function tablesOf(pool: pg.Pool): Promise<string[]> {
  const { rows } = await pool.query<{ name: string }>(
    `select format('%I.%I', nspname, relname) as name from pg_class join pg_namespace n on n.oid = relnamespace
     where relkind in ('r', 'p') and not relispartition and nspname in ('public', 'mock') and relname <> 'migration'
     order by 1`,
  )
  return rows.map(({ name }) => name)
}
