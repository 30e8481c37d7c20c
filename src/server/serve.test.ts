/** Starts that fail at their last step: nothing of them is left, so that the next start works at once. */
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import net, { type AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../test/harness/database.ts'
import { removeFolder } from '../../test/harness/leftover.ts'
import { relayPorts } from '../../test/harness/own-port.ts'
import { openDataFolder } from './data/data-folder.ts'
import { serve } from './serve.ts'
import { readSettings } from './settings.ts'
import { workerJournal } from './workers/worker-journal.ts'

let database: TestDatabase
let dataDir: string
let taken: net.Server

beforeEach(async () => {
  database = await testDatabase()
  dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-serve-'))
  taken = net.createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
})

afterEach(async () => {
  taken.close()
  await database.drop()
  await removeFolder(dataDir)
})

function start(env: Readonly<Record<string, string>>) {
  const settings = readSettings({
    BERTH_PORT: '0',
    BERTH_DATA_DIR: dataDir,
    DATABASE_URL: database.url,
    BERTH_DRIVERS: 'mock,host',
    BERTH_SECRET_KEY: 'the secret key of every test server',
    BERTH_LOCAL_ENGINES: 'false',
    BERTH_WORKERS: '2',
    BERTH_RELAY_PORTS: relayPorts(),
    ...env,
  })
  return serve(settings, { log: pino({ level: 'silent' }) })
}

test.each(['BERTH_PORT', 'BERTH_METRICS_PORT'])(
  'a start whose %s is in use closes its workers, its database and its folder (issue 32, 2)',
  async (setting) => {
    const { port } = taken.address() as AddressInfo
    await expect(start({ [setting]: String(port) })).rejects.toMatchObject({ code: 'EADDRINUSE', port })
    // A worker holds the folder of its journal until it exits.
    for (const folder of [dataDir, workerJournal(dataDir, 0), workerJournal(dataDir, 1)]) {
      const opened = await openDataFolder(folder)
      await opened.release()
    }
    const server = await start({})
    await server.close()
  },
)

test('a start with the old name of the list of drivers is refused with the new one', () => {
  expect(() => readSettings({ BERTH_ENGINES: 'host' })).toThrow(/BERTH_ENGINES is BERTH_DRIVERS now/)
  expect(readSettings({ BERTH_DRIVERS: 'host' }).drivers).toEqual(['host'])
})
