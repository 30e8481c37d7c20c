/** The schema names states of rentals in constraints, indexes and functions; each of its lists follows from the table. */
import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { testDatabase } from '../../../test/harness/database.ts'
import { rentalStates, statesWhere, type RentalState } from '../../contract/rental-state.ts'

const database = await testDatabase()
const pool = new pg.Pool({ connectionString: database.url, max: 1 })
afterAll(async () => {
  await pool.end()
  await database.drop()
})

const living = statesWhere(({ goal }) => goal !== 'gone')
const calls = (...names: string[]) => statesWhere(({ driverCall }) => names.includes(driverCall ?? ''))

/** Every list of states in the schema, in the order of its text. A state that is named alone is a list of one. */
const expected: Readonly<Record<string, ReadonlyArray<readonly RentalState[]>>> = {
  'constraint rental_status_check': [rentalStates],
  'constraint running_has_started': [['Running']],
  'constraint ended_is_released': [['Terminated']],
  'constraint ending_was_asked': [['Terminating', 'Terminated']],
  'function gpus_in_use': [statesWhere(({ countsAgainstQuota }) => countsAgainstQuota)],
  'function key_allowance': [living],
  'index rental_living': [living],
  'index rental_ending': [living],
  'index rental_stop_at': [['Running']],
  'index rental_passing': [statesWhere(({ limit }) => limit !== null)],
  'index rental_to_create': [calls('create')],
  'index rental_to_destroy': [calls('destroy')],
  'index rental_to_power': [calls('start', 'stop'), ['Running']],
}

test('the lists of states in the schema are those of the table', async () => {
  const { rows } = await pool.query<{ name: string; text: string }>(`
    select 'constraint ' || conname as name, pg_get_constraintdef(oid) as text from pg_constraint
    -- Jobs have states of their own, with the same words.
    where conrelid not in ('job'::regclass, 'job_task'::regclass, 'job_attempt'::regclass)
    union all select 'index ' || relname, pg_get_indexdef(oid) from pg_class where relkind = 'i'
    union all select 'function ' || proname, pg_get_functiondef(oid) from pg_proc
    where pronamespace = 'public'::regnamespace and prokind = 'f'
    union all select 'view ' || relname, pg_get_viewdef(oid) from pg_class
    where relkind = 'v' and relnamespace = 'public'::regnamespace
    union all select 'trigger ' || tgname, pg_get_triggerdef(oid) from pg_trigger`)
  const lists = rows.flatMap(({ name, text }) => {
    const groups = statesIn(text)
    return groups.length === 0 ? [] : [[name, groups] as const]
  })
  expect(Object.fromEntries(lists)).toEqual(
    Object.fromEntries(
      Object.entries(expected).map(([name, groups]) => [name, groups.map((group) => group.toSorted())]),
    ),
  )
})

/** Quoted names that follow one another, separated by commas alone, are one list. */
function statesIn(definition: string): string[][] {
  const quoted = `'(?:${rentalStates.join('|')})'`
  const lists = definition.replaceAll('::text', '').match(new RegExp(`${quoted}(?:\\s*,\\s*${quoted})*`, 'g'))
  return (lists ?? []).map((list) => list.replaceAll(/[\s']/g, '').split(',').toSorted())
}
