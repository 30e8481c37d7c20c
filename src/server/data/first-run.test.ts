/** The models that a first start adds, and those that an upgrade adds to an older installation. */
import { rm } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { testDatabase } from '../../../test/harness/database.ts'
import { olderSchema } from '../../../test/harness/older-schema.ts'
import { systemClock } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { openDatabase, type Database } from '../../store/platform/database.ts'
import { migrate } from '../../store/platform/migrate.ts'
import { ensureModels } from './first-run.ts'

const schema = path.resolve('schema')

async function fresh(work: (database: Database) => Promise<void>): Promise<void> {
  const fresh = await testDatabase()
  const database = openDatabase({ url: fresh.url, clock: systemClock })
  try {
    await work(database)
  } finally {
    await database.close()
    await fresh.drop()
  }
}

/** A database with the migrations before image models; `setUp` prepares its data. */
async function upgraded(setUp: string, work: (database: Database) => Promise<void>): Promise<void> {
  const old = await olderSchema('0011')
  onTestFinished(() => rm(old, { recursive: true, force: true }))
  await fresh(async (database) => {
    await database.pool.query('drop schema public, mock cascade')
    await database.pool.query('create schema public')
    await migrate(database.pool, old)
    await database.pool.query(setUp)
    expect(await migrate(database.pool, schema)).toContain('before-baseline/0011_pictures.sql')
    await work(database)
  })
}

async function names(database: Database): Promise<string[]> {
  const rows = await database.db.selectFrom('model').select('name').orderBy('name').execute()
  return rows.map(({ name }) => name)
}

const audited = (name: string): string =>
  `insert into audit (at, actor, action, subject) values (now(), 'first start', 'model.create', '${name}');`
const offered = (name: string, kind: string, engine: string): string =>
  `insert into model (name, kind, engine, created_at) values ('${name}', '${kind}', '${engine}', now());${audited(name)}`

describe('the first start adds', () => {
  test('a chat, a speech, an embedding, an image and a transcription model, each with a price', async () => {
    await fresh(async (database) => {
      await ensureModels(database, 'all')
      const models = await database.db.selectFrom('model').selectAll().orderBy('name').execute()
      expect(models.map(({ name, kind, engine }) => [name, kind, engine])).toEqual([
        ['all-minilm-l6-v2', 'embedding', 'embedding'],
        ['berth-voice', 'speech', 'speech'],
        ['moonshine-base-en', 'transcription', 'transcription'],
        ['pictogram', 'image', 'picture'],
        ['tinyllama-1.1b-chat', 'chat', 'llama'],
      ])
      const [, voice, moonshine, pictogram, tiny] = models
      expect(tiny?.files?.reduce((sum, { bytes }) => sum + (bytes ?? 0), 0)).toBe(322_591_712)
      expect(tiny?.context_tokens).toBe(2_048)
      expect(moonshine?.files?.map(({ bytes }) => bytes)).toEqual([20_513_063, 42_498_870])
      expect(moonshine?.sound_ms_nano).toBe(usd('0.02'))
      expect(voice?.character_nano).toBe(usd('1'))
      expect(pictogram?.pixel_step_nano).toBe(usd('0.0001'))
    })
  })

  test.each([
    ['embedded', ['all-minilm-l6-v2', 'berth-voice', 'pictogram']],
    ['none', []],
  ] as const)('with BERTH_DEFAULT_MODELS=%s only %j, also later', async (first, expected) => {
    await fresh(async (database) => {
      for (const which of [first, 'all'] as const) {
        await ensureModels(database, which)
        expect(await names(database)).toEqual(expected)
      }
    })
  })

  test('nothing twice, even after the operator has removed everything', async () => {
    await fresh(async (database) => {
      await ensureModels(database, 'all')
      await database.db.deleteFrom('model').where('name', '=', 'berth-voice').execute()
      await ensureModels(database, 'all')
      expect(await names(database)).toEqual([
        'all-minilm-l6-v2',
        'moonshine-base-en',
        'pictogram',
        'tinyllama-1.1b-chat',
      ])
      await database.db.deleteFrom('model').execute()
      await ensureModels(database, 'all')
      expect(await names(database)).toEqual([])
    })
  })
})

test('adds new models once to an older installation, and nothing that was removed', async () => {
  const setUp = offered('all-minilm-l6-v2', 'embedding', 'embedding') + audited('berth-voice')
  await upgraded(setUp, async (database) => {
    await ensureModels(database, 'all')
    expect(await names(database)).toEqual(['all-minilm-l6-v2', 'moonshine-base-en', 'pictogram'])
    const log = await database.db.selectFrom('audit').select('action').where('subject', '=', 'pictogram').execute()
    expect(log).toEqual([{ action: 'model.create' }])
    await database.db.deleteFrom('model').where('name', '=', 'pictogram').execute()
    await ensureModels(database, 'all')
    expect(await names(database)).toEqual(['all-minilm-l6-v2', 'moonshine-base-en'])
  })
})

test('keeps a model of the same name that the operator added', async () => {
  const setUp = `insert into model (name, kind, pixel_step_nano, created_at) values ('pictogram', 'image', 7, now());`
  await upgraded(setUp, async (database) => {
    await ensureModels(database, 'all')
    const columns = ['name', 'engine', 'pixel_step_nano'] as const
    const models = await database.db.selectFrom('model').select(columns).where('kind', '=', 'image').execute()
    expect(models).toEqual([{ name: 'pictogram', engine: null, pixel_step_nano: 7n }])
  })
})

test('treats a database without an installation as new', async () => {
  await upgraded('select 1', async (database) => {
    await ensureModels(database, 'embedded')
    expect(await names(database)).toEqual(['all-minilm-l6-v2', 'berth-voice', 'pictogram'])
  })
})
