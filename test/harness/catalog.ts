/** The schema of a database as sorted lines, to compare two of them; and its rows, with instants of now left out. */
import type pg from 'pg'
import { dumpTables } from './table-dump.ts'

/** What each query returns is a line. Names of schemas and objects are in it, object ids are not. */
const queries: Readonly<Record<string, string>> = {
  schema: `select format('%s owner=%s acl=%s', nspname, nspowner::regrole, nspacl) from pg_namespace where ${own('oid')}`,
  relation: `select format('%s kind=%s persistence=%s options=%s owner=%s acl=%s partition=%s', oid::regclass, relkind,
      relpersistence, reloptions, relowner::regrole, relacl,
      coalesce(pg_get_partkeydef(oid), pg_get_expr(relpartbound, oid)))
    from pg_class where ${own('relnamespace')} and relkind <> 'c'`,
  column: `select format('%s.%s %s collation=%s not_null=%s default=%s identity=%s generated=%s storage=%s acl=%s',
      c.oid::regclass, attname, format_type(atttypid, atttypmod), attcollation, attnotnull, pg_get_expr(adbin, adrelid),
      attidentity, attgenerated, attstorage, attacl)
    from pg_attribute a join pg_class c on c.oid = attrelid
    left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where ${own('relnamespace')} and relkind in ('r', 'p') and attnum > 0 and not attisdropped`,
  // Their order is part of types and views.
  composite: `select format('%s %s', c.oid::regclass, string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', '
      order by attnum))
    from pg_attribute a join pg_class c on c.oid = attrelid
    where ${own('relnamespace')} and relkind in ('c', 'v') and attnum > 0 and not attisdropped group by c.oid`,
  // A new database has no rows that a constraint could be valid without.
  constraint: `select format('%s on %s %s inherited=%s', conname, conrelid::regclass,
      replace(pg_get_constraintdef(oid), ' NOT VALID', ''), coninhcount)
    from pg_constraint where ${own('connamespace')}`,
  index: `select format('%s clustered=%s replica=%s', pg_get_indexdef(indexrelid), indisclustered, indisreplident)
    from pg_index join pg_class on oid = indexrelid where ${own('relnamespace')}`,
  trigger: `select format('%s enabled=%s', pg_get_triggerdef(t.oid), tgenabled)
    from pg_trigger t join pg_class c on c.oid = tgrelid where ${own('relnamespace')} and not tgisinternal`,
  function: `select format('%s owner=%s acl=%s', pg_get_functiondef(oid), proowner::regrole, proacl)
    from pg_proc where ${own('pronamespace')}`,
  view: `select format('%s %s', oid::regclass, pg_get_viewdef(oid)) from pg_class where ${own('relnamespace')} and relkind = 'v'`,
  sequence: `select format('%s %s start=%s by=%s min=%s max=%s cycle=%s owned_by=%s', seqrelid::regclass, seqtypid::regtype, seqstart,
      seqincrement, seqmin, seqmax, seqcycle, (select pg_describe_object(refclassid, refobjid, refobjsubid) from pg_depend
        where classid = 'pg_class'::regclass and objid = seqrelid and deptype in ('a', 'i')))
    from pg_sequence join pg_class on pg_class.oid = seqrelid where ${own('relnamespace')}`,
  statistics: `select pg_get_statisticsobjdef(oid) from pg_statistic_ext where ${own('stxnamespace')}`,
  comment: `select format('%s %s', pg_describe_object(classoid, objoid, objsubid), description) from pg_description
    where objoid >= 16384`,
  'default acl': `select format('%s %s', defaclobjtype, defaclacl) from pg_default_acl`,
  extension: `select format('%s %s', extname, extversion) from pg_extension`,
  migration: `select format('%s %s', name, sha256) from migration`,
}

export async function describeCatalog(pool: pg.Pool): Promise<string[]> {
  const lines: string[] = []
  for (const [kind, query] of Object.entries(queries)) {
    const { rows } = await pool.query<[string]>({ text: query, rowMode: 'array' })
    lines.push(...rows.map(([line]) => `${kind}: ${line}`))
  }
  for (const line of (await dumpTables(pool)).split('\n')) {
    const [table = '', json = ''] = line.split('\t')
    lines.push(`row: ${table} ${withoutOrder(json).replaceAll(INSTANT, '"now"')}`)
  }
  return lines.toSorted()
}

const INSTANT = /"\d{4}-\d{2}-\d{2}T[^"]*"/g

/** The JSON of a row has its columns in the order of the table; that of a sequence is a number. */
function withoutOrder(json: string): string {
  const value = JSON.parse(json) as unknown
  if (typeof value !== 'object' || value === null) return json
  return Object.entries(value)
    .map((entry) => JSON.stringify(entry))
    .toSorted()
    .join(' ')
}

function own(namespace: string): string {
  return `${namespace} in (select oid from pg_namespace where nspname in ('public', 'mock'))`
}
