/**
 * A real S3 server: versitygw, which checks signatures as S3 does. It is built from its Go modules and kept outside the
 * checkout, so only the first run builds, for about 80 s of one processor.
 */
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readFile, rename, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { objectUrl, type ObjectStore } from '../../src/base/net/object-store.ts'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { buildOnce, cheapBuild, go, goProgram } from './go-build.ts'
import { removeFolder } from '../harness/leftover.ts'
import { ownPorts } from '../harness/own-port.ts'
import { waitFor } from '../harness/wait.ts'

const MODULE = 'github.com/versity/versitygw'
const VERSION = 'v1.8.0'
const START_MS = 30_000

export interface S3Server extends ObjectStore {
  makeBucket(bucket: string): Promise<void>
  put(bucket: string, key: string, content: Uint8Array): Promise<void>
  close(): Promise<void>
}

/** The reason none can run here; undefined if one can. */
export function whyNoS3Server(): string | undefined {
  return existsSync(programFile()) || goProgram() !== undefined ? undefined : 'it needs go, to build an S3 server'
}

export async function startS3Server(): Promise<S3Server> {
  const program = await s3Program()
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-s3-'))
  const root = path.join(folder, 'root')
  await mkdir(root)
  const address = `127.0.0.1:${ownPorts()}`
  const store = {
    url: `http://${address}`,
    region: 'eu-west-7',
    accessKey: 'lab-access',
    secretKey: 'lab-secret/with+signs',
  }
  const env = { S3_ACCESS_KEY: store.accessKey, S3_SECRET_KEY: store.secretKey, S3_REGION: store.region }
  const child = spawn(program, [root, address], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-10_000)))
  /** curl signs by itself: the server is filled by another implementation than ours. */
  const curl = (...args: string[]): Promise<unknown> => {
    const signed = ['--aws-sigv4', `aws:amz:${store.region}:s3`, '--user', `${store.accessKey}:${store.secretKey}`]
    const unsigned = ['-H', 'x-amz-content-sha256: UNSIGNED-PAYLOAD']
    return promisify(execFile)('curl', ['--fail', '--silent', '--show-error', ...signed, ...unsigned, ...args])
  }
  const close = async (): Promise<void> => {
    child.kill('SIGTERM')
    await ended
    await removeFolder(folder)
  }
  try {
    await waitFor(
      () => `the S3 server answers:\n${output}`,
      () => {
        if (child.exitCode !== null) throw new Error(`the S3 server ended:\n${output}`)
        return fetch(store.url).then(
          () => true,
          () => false,
        )
      },
      START_MS,
    )
  } catch (error) {
    await close()
    throw error
  }
  return {
    ...store,
    makeBucket: async (bucket) => void (await curl('-X', 'PUT', `${store.url}/${bucket}`)),
    put: async (bucket, key, content) => {
      const file = path.join(folder, 'upload')
      await writeFile(file, content)
      await curl('-T', file, objectUrl(store, bucket, key).href)
    },
    close,
  }
}

function programFile(): string {
  return path.join(cacheFolder(), `versitygw-${VERSION}-${process.arch}`, 's3-server')
}

/** Without optimisations, which nobody waits for here. */
const unoptimised = cheapBuild.map((flag) => flag.replace('all=-l', 'all=-N -l'))

/** The program, built if necessary. */
export async function s3Program(): Promise<string> {
  const file = programFile()
  await buildOnce(`the S3 server versitygw ${VERSION}`, path.dirname(file), () => existsSync(file), build)
  return file
}

async function build(work: string): Promise<void> {
  await writeFile(path.join(work, 'go.mod'), 'module berth.test/s3\n\ngo 1.25.0\n')
  const described = await go(work, ['mod', 'download', '-json', `${MODULE}@${VERSION}`])
  const { GoMod } = JSON.parse(described) as { GoMod: string }
  const required = (await readFile(GoMod, 'utf8')).split('\n').filter((line) => /^\t\S+ v\S+/.test(line))
  const lines = ['module berth.test/s3', 'go 1.25.0', `require ${MODULE} ${VERSION}`]
  const text = [...lines, ...required.map((line) => `require ${line.trim()}`), ''].join('\n')
  await writeFile(path.join(work, 'go.mod'), text)
  await copyFile(path.join(import.meta.dirname, 's3-main.go'), path.join(work, 'main.go'))
  const out = path.join(work, 's3-server')
  await go(work, ['build', '-mod=mod', ...unoptimised, '-ldflags', '-s -w', '-o', out, '.'])
  await rename(out, programFile())
}
