/** Weights from a real S3 server: the links that the server signs, and what hosts do with them. */
import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, systemClock } from '../src/base/instant.ts'
import { objectUrl, presign, type ObjectStore } from '../src/base/net/object-store.ts'
import { anyRoom } from '../src/artifacts/download/disk-budget.ts'
import { makeDownloader } from '../src/artifacts/download/downloader.ts'
import { makeHostFiles, type HostFiles } from '../src/artifacts/model/host-files.ts'
import { joinHost, type JoinedHost } from './harness/joined-host.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { startS3Server, whyNoS3Server, type S3Server } from './lab/s3-server.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('go')

const why = whyNoS3Server()
const forever = new AbortController().signal
const BUCKET = 'weights'
/** As people name files; each of these characters has a meaning in a URL. */
const KEY = "team a/llama+8b (1)'s #2 100%.gguf"
const content = randomBytes(4 * 1_048_576)
const CUT_AFTER = 1_048_576
const LINK_SECONDS = 60
/** Building the S3 server is slow where it is not there yet. */
const START_MS = 10 * 60_000

describe.skipIf(why !== undefined)(`an object store${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let s3: S3Server
  let folder: string
  const downloader = makeDownloader({
    allowPrivate: true,
    limits: { stallMs: 10_000, retryMs: 1, maxRetryMs: 5 },
  })

  beforeAll(async () => {
    s3 = await startS3Server()
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-objects-'))
    await s3.makeBucket(BUCKET)
    await s3.put(BUCKET, KEY, content)
  }, START_MS)
  afterAll(async () => {
    await downloader.close()
    await s3.close()
    await removeFolder(folder)
  })

  const link = (key: string, store: ObjectStore = s3, bucket = BUCKET, now = systemClock.now()): string =>
    presign(store, objectUrl(store, bucket, key), now, LINK_SECONDS)

  /** Where each report of bytes stood, and the result. */
  async function get(url: string, name: string, signal = forever, onBytes: (bytes: number) => void = () => {}) {
    const wanted = { url, trustedOrigin: null, authorization: null, bytes: null, digest: null, room: anyRoom }
    return downloader.file({ ...wanted, target: path.join(folder, name), signal, onBytes })
  }

  test('serves a signed link, whatever characters the key has', async () => {
    expect(await get(link(KEY), 'whole')).toMatchObject({ ok: true, value: { bytes: content.length } })
    expect((await readFile(path.join(folder, 'whole'))).equals(content)).toBe(true)
  })

  /** Gets the first part of an object, as a host does that is switched off in between. */
  async function cut(key: string, name: string): Promise<void> {
    const stop = new AbortController()
    const got = await get(link(key), name, stop.signal, (bytes) => bytes > CUT_AFTER && stop.abort())
    expect(got).toMatchObject({ ok: false, reason: 'cancelled' })
  }

  test('resumes a download where it ended', async () => {
    await cut(KEY, 'resumed')
    const seen: number[] = []
    const got = await get(link(KEY), 'resumed', forever, (bytes) => seen.push(bytes))
    expect(got).toMatchObject({ ok: true, value: { bytes: content.length, isContinued: true } })
    expect(seen[0]).toBeGreaterThan(CUT_AFTER)
    expect((await readFile(path.join(folder, 'resumed'))).equals(content)).toBe(true)
  })

  test('starts over when the object was replaced meanwhile', async () => {
    await s3.put(BUCKET, 'changing', content)
    await cut('changing', 'changed')
    const next = randomBytes(content.length)
    await s3.put(BUCKET, 'changing', next)
    const seen: number[] = []
    expect(await get(link('changing'), 'changed', forever, (bytes) => seen.push(bytes))).toMatchObject({ ok: true })
    expect(seen[0]).toBe(0)
    expect((await readFile(path.join(folder, 'changed'))).equals(next)).toBe(true)
  })

  test('refuses with its own reason, which is passed on', async () => {
    const wrongSecret = { ...s3, secretKey: 'another' }
    const refusals: ReadonlyArray<readonly [string, RegExp]> = [
      [link(KEY, wrongSecret), /status 403: SignatureDoesNotMatch/],
      [link(KEY, { ...s3, accessKey: 'nobody' }), /status 40[34]: .*access key/i],
      [link(KEY, { ...s3, region: 'us-east-1' }), /status 40[03]: \w+/],
      [link(KEY, s3, BUCKET, addMs(systemClock.now(), -2 * LINK_SECONDS * 1_000)), /status 403: AccessDenied/],
      [link(KEY).replace('.gguf?', '.bin?'), /status 403: SignatureDoesNotMatch/],
      [link('not/there'), /status 404: NoSuchKey/],
      [link(KEY, s3, 'no-such-bucket'), /status 404: NoSuchBucket/],
    ]
    for (const [url, message] of refusals) {
      const refused = { ok: false, reason: 'bad_status', message: expect.stringMatching(message) }
      expect(await get(url, 'refused')).toMatchObject(refused)
    }
  })

  describe('of the operator', () => {
    let server: TestServer
    let host: JoinedHost
    let files: HostFiles

    beforeAll(async () => {
      server = await testServer({
        env: {
          BERTH_DRIVERS: 'host',
          BERTH_S3_URL: s3.url,
          BERTH_S3_REGION: s3.region,
          BERTH_S3_ACCESS_KEY: s3.accessKey,
          BERTH_S3_SECRET_KEY: s3.secretKey,
        },
      })
      // Nothing answers there: the replica stays at its start.
      host = await joinHost(server, 1, { gpusTotal: 4 })
      files = makeHostFiles({
        server: server.url,
        authorize: (at) => host.authorize(at),
        allowPrivate: true,
      })
    }, START_MS)
    afterAll(async () => {
      await files?.close()
      await host?.close()
      await server?.close()
    })

    /** A replica with these weights, as its host downloads them. */
    async function fetchAs(model: string, object: string, digest: string) {
      const file = { path: 'model.gguf', bytes: content.length, sha256: digest }
      const weights = { mountPath: '/models', files: [{ ...file, source: { kind: 's3', bucket: BUCKET, object } }] }
      const made = await succeed(server.operator, 'POST', '/v2/deployments', {
        model,
        forEveryone: true,
        recipe: { name: 'llama.cpp', weights },
        gpus: { count: 1 },
        replicas: { min: 1, max: 1 },
        hourlyBudgetUsd: '10.00',
      })
      const workload = await waitFor('the replica to be ordered', () =>
        host.workloads().find(({ spec }) => spec?.program?.weights?.files.some(({ sha256 }) => sha256 === digest)),
      )
      const target = path.join(folder, digest)
      const wanted = { target, bytes: file.bytes, sha256: digest, room: anyRoom }
      const got = await files.fetchWeights(workload.id, wanted, { signal: forever, onBytes: () => {} })
      await succeed(server.operator, 'DELETE', `/v2/deployments/${made.id}`)
      return { got, target }
    }

    test('has the weights of models, and hosts check them', async () => {
      const sha256 = createHash('sha256').update(content).digest('hex')
      const right = await fetchAs('house/right', KEY, sha256)
      expect(right.got).toMatchObject({ ok: true })
      expect((await readFile(right.target)).equals(content)).toBe(true)
      const wrong = await fetchAs('house/wrong', KEY, '0'.repeat(64))
      expect(wrong.got).toMatchObject({ ok: false, reason: 'wrong_digest' })
      const missing = await fetchAs('house/missing', 'not/there', '1'.repeat(64))
      expect(missing.got).toMatchObject({ reason: 'bad_status', message: expect.stringContaining('NoSuchKey') })
      // The link would let anyone who reads the message download the object.
      expect(JSON.stringify(missing.got)).not.toMatch(/X-Amz|lab-access/)
    }, 60_000)
  })
})
