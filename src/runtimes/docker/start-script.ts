/**
 * Runs the start script of an order in its container, beside the image's entrypoint, at every start. Its output goes to
 * the container's terminal, which is the log. The script comes on standard input: a command would be in the daemon's
 * events, and the script may contain secrets.
 */
import type { Socket } from 'node:net'
import type { Workload } from '../../contract/agent.ts'
import type { DockerClient } from './client.ts'
import { readOutput, startExecution, type Execution } from './execution.ts'

export interface StartScriptOptions {
  readonly client: DockerClient
  readonly changed: () => void
  readonly onError: (what: string, error: unknown) => void
}

/** Descriptor 3 keeps the connection open until the end. */
const RUN_SCRIPT = `
script=$(cat)
exec 3>&1 2>&1 </dev/null
if (: >>/proc/1/fd/1) 2>/dev/null; then exec >>/proc/1/fd/1 2>&1; fi
/bin/sh -c "$script" 3>&-
code=$?
[ "$code" = 0 ] || echo "onStart: exited with code $code"
exit "$code"`
/**
 * For images that run as another user: there, the daemon gives root no capabilities, and only the group of terminals may
 * write to one. The script itself does not run in this group, which its files would inherit.
 */
const SINK = { command: ['/bin/sh', '-c', 'exec cat >/dev/console'], user: '0:5' } as const

export function scriptOf({ spec }: Workload): string | null {
  return spec?.program?.onStart ?? null
}

export class StartScripts {
  readonly #options: StartScriptOptions
  /** How the last run ended, by workload; only failures. */
  readonly #failures = new Map<string, string>()
  readonly #runs = new Map<string, Execution>()

  constructor(options: StartScriptOptions) {
    this.#options = options
  }

  /** A sentence for the customer, if the script of the current run has failed. */
  failure(id: string): string | undefined {
    return this.#failures.get(id)
  }

  forget(id: string): void {
    this.#failures.delete(id)
    this.#runs.delete(id)
  }

  /** Returns once it has begun. That it fails or cannot run is no reason to stop the container. */
  async begin(id: string, container: string, script: string): Promise<void> {
    this.forget(id)
    try {
      const execution = await startExecution(this.#options.client, container, {
        command: ['/bin/sh', '-c', RUN_SCRIPT],
      })
      this.#runs.set(id, execution)
      execution.socket.end(script)
      void this.#watch(id, container, execution)
    } catch (error) {
      this.#fail(id, 'The start script could not be run; the image may have no shell.', error)
    }
  }

  /** Never rejects: nothing awaits it. */
  async #watch(id: string, container: string, execution: Execution): Promise<void> {
    const { client } = this.#options
    let sink: Socket | undefined
    try {
      for await (const { data } of readOutput(execution)) {
        sink ??= (await startExecution(client, container, SINK)).socket
        await written(sink.resume(), data)
      }
      const code = await execution.exitCode()
      if (code === 0 || this.#runs.get(id) !== execution) return
      this.#fail(id, `The start script exited with code ${code}; its output is in the log.`)
    } catch (error) {
      // With the container the script has ended, too.
      if (this.#runs.get(id) === execution) this.#options.onError(`start script of ${id}`, error)
    } finally {
      sink?.end()
    }
  }

  #fail(id: string, message: string, error?: unknown): void {
    this.#failures.set(id, message)
    if (error !== undefined) this.#options.onError(`start script of ${id}`, error)
    this.#options.changed()
  }
}

/** With backpressure: a chatty script waits for the log. */
function written(sink: Socket, data: Buffer): Promise<void> {
  return new Promise((resolve) => {
    if (sink.destroyed) return resolve()
    sink.write(data, () => resolve())
  })
}
