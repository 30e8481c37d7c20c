/**
 * stripe-mock, which checks the parameters of each request against Stripe's own description. It has no state and sends
 * nothing: the simulator asks it for a second opinion. It is built from its Go modules and kept outside the checkout.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { ownPorts } from '../harness/own-port.ts'
import { waitFor } from '../harness/wait.ts'
import type { StripeCall } from '../sim/stripe-object.ts'
import { buildOnce, cheapBuild, go, goProgram } from './go-build.ts'

const MODULE = 'github.com/stripe/stripe-mock'
const VERSION = 'v0.203.0'
const START_MS = 30_000

export interface StripeMock {
  /** What it says against a request. undefined: nothing. */
  refuse(call: StripeCall): Promise<string | undefined>
  close(): Promise<void>
}

/** The reason none can run here; undefined if one can. */
export function whyNoStripeMock(): string | undefined {
  return existsSync(programFile()) || goProgram() !== undefined ? undefined : 'it needs go, to build stripe-mock'
}

export async function startStripeMock(): Promise<StripeMock> {
  const file = programFile()
  await buildOnce(`stripe-mock ${VERSION}`, path.dirname(file), () => existsSync(file), build)
  const url = `http://127.0.0.1:${ownPorts()}`
  const child = spawn(file, ['-http-addr', new URL(url).host], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-10_000)))
  const close = async (): Promise<void> => {
    child.kill('SIGTERM')
    await ended
  }
  try {
    await waitFor(
      () => `stripe-mock answers:\n${output}`,
      () => {
        if (child.exitCode !== null) throw new Error(`stripe-mock ended:\n${output}`)
        return fetch(url).then(
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
    refuse: async ({ method, path: pathname, text, version }) => {
      const isRead = method === 'GET'
      const response = await fetch(`${url}${pathname}${isRead && text !== '' ? `?${text}` : ''}`, {
        method,
        headers: {
          Authorization: 'Bearer sk_test_123',
          'Stripe-Version': version,
          ...(isRead ? {} : { 'Content-Type': 'application/x-www-form-urlencoded' }),
        },
        ...(isRead ? {} : { body: text }),
      })
      const answer = await response.text()
      return response.status < 400 ? undefined : `${method} ${pathname}: ${response.status} ${answer}`
    },
    close,
  }
}

function programFile(): string {
  return path.join(cacheFolder(), `stripe-mock-${VERSION}-${process.arch}`, 'stripe-mock')
}

async function build(work: string): Promise<void> {
  await writeFile(path.join(work, 'go.mod'), 'module berth.test/stripe\n\ngo 1.25.0\n')
  const described = await go(work, ['mod', 'download', '-json', `${MODULE}@${VERSION}`])
  const { GoMod } = JSON.parse(described) as { GoMod: string }
  const required = (await readFile(GoMod, 'utf8')).split('\n').filter((line) => /^\t\S+ v\S+/.test(line))
  const lines = ['module berth.test/stripe', 'go 1.25.0', `require ${MODULE} ${VERSION}`]
  await writeFile(
    path.join(work, 'go.mod'),
    [...lines, ...required.map((line) => `require ${line.trim()}`), ''].join('\n'),
  )
  const out = path.join(work, 'stripe-mock')
  await go(work, ['build', '-mod=mod', ...cheapBuild, '-ldflags', '-s -w', '-o', out, MODULE])
  await rename(out, programFile())
}
