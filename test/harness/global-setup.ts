/**
 * One PostgreSQL for the whole run, with a migrated template that each test file clones, and, for lab suites, one build of
 * all programs.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, stat, statfs } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { build } from 'rolldown'
import type { TestProject } from 'vitest/node'
import { cliConfig, serverConfig } from '../../rolldown.config.ts'
import { HOUR_MS, systemClock } from '../../src/base/instant.ts'
import { runsIn } from '../../src/server/data/data-folder.ts'
import { startEmbeddedPostgres } from '../../src/server/data/embedded-postgres.ts'
import { migrate } from '../../src/store/platform/migrate.ts'
import { debianPostgres } from './debian-postgres.ts'
import { buildOrReuse } from './kept-build.ts'
import { removeFolder } from './leftover.ts'

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string
    /** The server, built for this run, with its engines beside it. */
    serverBundle: string
    /** The web console, built for this run. */
    consoleDir: string
  }
}

const MEMORY = '/dev/shm'
const PREFIX = 'berth-test-'
/** Tests run as the role that the documentation describes: it owns its database and is no superuser. */
const OWNER = 'berth_owner'
const ENOUGH_BYTES = 6 * 1024 ** 3

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(path.join(await databaseParent(), PREFIX))
  const postgres = await startEmbeddedPostgres({
    dataDir,
    log: () => {},
    ...(process.env['BERTH_TEST_POSTGRES'] === 'debian' ? { bin: debianPostgres() } : {}),
    // Tests kill processes, not the machine: data written by PostgreSQL survives without fsync.
    settings: {
      fsync: 'off',
      synchronous_commit: 'off',
      full_page_writes: 'off',
      max_connections: '800',
      max_wal_size: '256MB',
      // Databases live for seconds: vacuuming them all in turn helps none.
      autovacuum: 'off',
    },
  })
  const admin = new pg.Pool({ connectionString: postgres.url, max: 1 })
  await admin.query(`create role ${OWNER} login createdb`)
  // Some tests corrupt data on purpose, and one loads tables in any order.
  await admin.query(`grant set on parameter session_replication_role to ${OWNER}`)
  await admin.query(`create database template_berth owner ${OWNER}`)
  await admin.end()
  const url = postgres.url.replace('//berth@', `//${OWNER}@`)
  const template = new pg.Pool({ connectionString: withDatabase(url, 'template_berth'), max: 1 })
  await migrate(template, path.resolve('schema'))
  await template.end()
  project.provide('postgresUrl', url)
  const hasLab = project.vitest.projects.some(({ name }) => name !== 'unit')
  const removeBuild = hasLab ? await buildFor(project) : undefined
  return async () => {
    await postgres.stop()
    await removeFolder(dataDir)
    await removeBuild?.()
  }
}

async function buildFor(project: TestProject): Promise<() => Promise<void>> {
  const bundleDir = path.resolve('node_modules', '.cache', `berth-test-${process.pid}`)
  await buildOrReuse({ name: 'programs', from: [], to: bundleDir, build: () => buildPrograms(bundleDir) })
  project.provide('serverBundle', path.join(bundleDir, 'server.mjs'))
  const consoleDir = path.join(bundleDir, 'console')
  await buildOrReuse({ name: 'console', from: ['console'], to: consoleDir, build: () => buildConsole(consoleDir) })
  project.provide('consoleDir', consoleDir)
  return async () => {
    await removeFolder(bundleDir)
    await removeFolder(imageFolder(bundleDir))
  }
}

/**
 * In memory where there is room: a test database is a thousand files, and a disk file system that has just removed so
 * many searches long for free places for the next.
 */
async function databaseParent(): Promise<string> {
  const { bavail, bsize } = await statfs(MEMORY).catch(() => ({ bavail: 0, bsize: 0 }))
  if (bavail * bsize < ENOUGH_BYTES) return os.tmpdir()
  await removeLeftovers()
  return MEMORY
}

/** Of runs that were killed: nothing else frees that memory. */
async function removeLeftovers(): Promise<void> {
  for (const name of (await readdir(MEMORY)).filter((one) => one.startsWith(PREFIX))) {
    const cluster = path.join(MEMORY, name, 'postgres')
    const pid = await readFile(path.join(cluster, 'postmaster.pid'), 'utf8').catch(() => '')
    const changed = await stat(cluster).catch(() => undefined)
    const isOld = changed !== undefined && systemClock.now() - changed.mtimeMs > HOUR_MS
    if (isOld && !runsIn(Number.parseInt(pid, 10), 'postgres', cluster)) await removeFolder(path.join(MEMORY, name))
  }
}

/** Beside the bundle, which is part of it. */
export function imageFolder(bundleDir: string): string {
  return `${bundleDir}-image`
}

async function buildPrograms(dir: string): Promise<void> {
  for (const config of [serverConfig, cliConfig]) await build({ ...config, output: { ...config.output, dir } })
}

/** In a separate process: NODE_ENV is `test` here, which would select React's development build. */
async function buildConsole(outDir: string): Promise<void> {
  const vite = path.resolve('node_modules', 'vite', 'bin', 'vite.js')
  const args = [vite, 'build', '--config', 'vite.config.ts', '--logLevel', 'warn', '--outDir', outDir]
  await promisify(execFile)(process.execPath, args, { env: { ...process.env, NODE_ENV: 'production' } })
}

export function withDatabase(url: string, database: string): string {
  return url.replace(/\/berth(\?|$)/, `/${database}$1`)
}
