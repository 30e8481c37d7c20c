/** A Docker host beside the server, in its own network namespace, with the agent as a supplier runs it. */
import { spawn } from 'node:child_process'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { rolldown } from 'rolldown'
import { startDockerLab, unmountAndRemove, type DockerLab } from '../../test/lab/docker-lab.ts'
import type { LabImage, RegistryLab } from '../../test/lab/registry-lab.ts'
import { stopProcess, watchProcess } from '../gateway/child.ts'

const HOST = 'bench-1'

export async function startDocker(): Promise<DockerLab & { stop(): Promise<void> }> {
  const lab = await startDockerLab({ name: HOST })
  return { ...lab, stop: () => lab.close() }
}

/** Node and the engine, nothing else. */
export async function pushEngine(registry: RegistryLab): Promise<LabImage> {
  const bundle = await rolldown({ input: path.join(import.meta.dirname, 'engine-main.ts'), platform: 'node' })
  const { output } = await bundle.generate({ format: 'esm' })
  const layers = [await registry.programLayer(process.execPath), await registry.layer({ 'engine.mjs': output[0].code })]
  return registry.push('bench/engine', '1', layers, [process.execPath, '/engine.mjs'])
}

/**
 * The same engine on the same host without Berth. Replicas cannot be asked directly: the host lets nobody in but its agent.
 * Returns its address, to which the root namespace has a route.
 */
export async function startUnmanaged(docker: DockerLab, { name, tag }: LabImage, port: number): Promise<string> {
  await docker.docker('network', 'create', 'unmanaged')
  const options = ['-d', '--name', 'unmanaged', '--network', 'unmanaged', '--env', `PORT=${port}`]
  await docker.docker('run', ...options, `${name}:${tag}`)
  const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'
  const address = (await docker.docker('inspect', '--format', format, 'unmanaged')).trim()
  if (address === '') throw new Error('the engine has no address')
  return address
}

export interface BenchAgent {
  readonly pid: number
  stop(): Promise<void>
}

/** On the host: sells two simulated GPUs. */
export async function startAgent(docker: DockerLab, server: string, token: string): Promise<BenchAgent> {
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-bench-agent-'))
  const { busybox } = docker.images
  const joins = ['--server', server, '--token', token, '--name', HOST, '--dir', dir]
  const sells = ['--cluster', 'bench', '--price', '0.40', '--simulate-gpus', 'rtx4090:2']
  const image = ['--image', `${busybox.name}:${busybox.tag}`, '--allow-registry', docker.network.bridgeAddress]
  const runs = ['--docker-socket', docker.socketPath, ...image]
  const command = [process.execPath, 'bin/berth.mjs', 'agent', 'run', ...joins, ...sells, ...runs]
  const child = spawn('nsenter', [`--net=/run/netns/${docker.netns}`, ...command], {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const { pid, ended } = watchProcess(child, 'the agent')
  return {
    pid,
    stop: async () => {
      await stopProcess(child, ended, 'SIGTERM')
      await unmountAndRemove(dir)
    },
  }
}
