/** Go's own reverse proxy as one side of a comparison, built where there is Go. One thread, like the others. */
import { execFile, spawn } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { freePort, stopProcess, untilListening, watchProcess } from './child.ts'
import { findProgram, peerFolder } from './peer-cache.ts'
import { plainHeaders, type MissingSide, type Side } from './side.ts'

export const GO_PROXY = 'Go reverse proxy'
const SOURCE = path.join(import.meta.dirname, 'go-proxy')
const PROGRAM = path.join(peerFolder('go-proxy'), 'go-proxy')
const BUILD_WITHIN_MS = 300_000

export async function startGoProxy(upstreamPort: number): Promise<Side | MissingSide> {
  if (!(await findProgram('go'))) return { name: GO_PROXY, missing: 'go is not installed' }
  try {
    await promisify(execFile)('go', ['build', '-o', PROGRAM, '.'], {
      cwd: SOURCE,
      timeout: BUILD_WITHIN_MS,
      env: { ...process.env, GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local' },
    })
  } catch (error) {
    return { name: GO_PROXY, missing: `it cannot be built: ${String(error).split('\n')[0]}` }
  }
  const port = await freePort()
  const child = spawn(PROGRAM, [String(port), String(upstreamPort)], {
    env: { PATH: process.env.PATH ?? '', GOMAXPROCS: '1' },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const { pid, ended } = watchProcess(child, GO_PROXY)
  await untilListening(port, ended, GO_PROXY)
  return { name: GO_PROXY, port, pid, headers: plainHeaders, stop: () => stopProcess(child, ended, 'SIGTERM') }
}
