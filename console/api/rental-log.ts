/** Follows a machine's log until the machine, its host or the page ends. */
import { useEffect, useRef, useState } from 'react'
import { apiErrorOf, isClientError, isRefusal, unreachable, type ClientError } from '../../src/client/error.ts'
import { routes } from '../../src/contract/routes.ts'
import { consoleFetch } from './client.ts'

const TAIL_LINES = 500
const KEPT_LINES = 2_000
const FILE_LINES = 100_000
/** A line without end is broken into pieces of this size. */
const LINE_CHARS = 10_000
/** Lines come in bursts; rendering each alone would freeze the page. */
const SHOW_EVERY_MS = 100

interface RentalLog {
  readonly state: 'opening' | 'open' | 'ended'
  readonly lines: readonly string[]
  /** Lines received while paused. */
  readonly waiting: number
  readonly error: ClientError | null
}

const opening: RentalLog = { state: 'opening', lines: [], waiting: 0, error: null }

export interface LogView {
  readonly search: string
  readonly timestamps: boolean
}

export function useRentalLog(id: string, isPaused: boolean, { search, timestamps }: LogView): RentalLog {
  const [log, setLog] = useState<RentalLog>(opening)
  const paused = useRef(isPaused)
  const show = useRef(() => {})
  useEffect(() => {
    paused.current = isPaused
    show.current()
  }, [isPaused])
  useEffect(() => {
    const controller = new AbortController()
    let lines: readonly string[] = []
    let fresh = 0
    let state: RentalLog['state'] = 'opening'
    let timer: ReturnType<typeof setTimeout> | undefined
    const tell = (error: ClientError | null = null): void => {
      clearTimeout(timer)
      timer = undefined
      if (controller.signal.aborted) return
      if (paused.current && state !== 'ended') return setLog((before) => ({ ...before, state, waiting: fresh }))
      fresh = 0
      setLog({ state, lines, waiting: 0, error })
    }
    show.current = tell
    const take = (more: readonly string[]): void => {
      lines = [...lines, ...more].slice(-KEPT_LINES)
      fresh = Math.min(KEPT_LINES, fresh + more.length)
      timer ??= setTimeout(tell, SHOW_EVERY_MS)
    }
    const opened = (): void => {
      state = 'open'
      tell()
    }
    const follow = async (): Promise<void> => {
      let failure: ClientError | null = null
      try {
        await followLog(id, { search, timestamps }, controller.signal, opened, take)
      } catch (error) {
        failure = isClientError(error) ? error : unreachable(location.origin, error)
      }
      state = 'ended'
      tell(failure)
    }
    void follow()
    return () => {
      controller.abort()
      clearTimeout(timer)
    }
  }, [id, search, timestamps])
  return log
}

async function followLog(
  id: string,
  view: LogView,
  signal: AbortSignal,
  opened: () => void,
  take: (lines: readonly string[]) => void,
): Promise<void> {
  const response = await openLog(id, { follow: true, tail: TAIL_LINES, ...view }, signal)
  opened()
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  let partialLine = ''
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    const pieces = (partialLine + decoder.decode(value, { stream: !done })).split('\n')
    partialLine = pieces.pop() ?? ''
    while (partialLine.length > LINE_CHARS) {
      pieces.push(partialLine.slice(0, LINE_CHARS))
      partialLine = partialLine.slice(LINE_CHARS)
    }
    if (done && partialLine !== '') pieces.push(partialLine)
    if (pieces.length > 0) take(pieces.map(plain))
    if (done) return
  }
}

/** Throws if the server has no access to the machine's log, and so none to its terminal. */
export async function checkLogAccess(id: string): Promise<void> {
  const response = await openLog(id, { follow: false, tail: 0 }, new AbortController().signal)
  await response.body?.cancel()
}

export function isSimulatedMachine(error: unknown): boolean {
  return isRefusal(error, 'simulated_machine')
}

/** The whole log, as a link to save. */
export function logFileUrl(id: string, { search, timestamps }: LogView): string {
  return logPath(id, { tail: FILE_LINES, search, timestamps, download: true })
}

interface LogQuery extends Partial<LogView> {
  readonly follow?: boolean
  readonly tail: number
  readonly download?: boolean
}

function logPath(id: string, { search = '', ...query }: LogQuery): `/${string}` {
  const path = routes.getRentalLogs.path.replace('{id}', encodeURIComponent(id)) as `/${string}`
  const values = Object.entries(query).map(([name, value]) => [name, String(value)])
  const text = new URLSearchParams([...values, ...(search === '' ? [] : [['search', search]])] as string[][])
  return `${path}?${text.toString()}`
}

async function openLog(id: string, query: LogQuery, signal: AbortSignal): Promise<Response> {
  const response = await consoleFetch(logPath(id, query), { signal }).catch((error: unknown) => {
    throw unreachable(location.origin, error)
  })
  if (!response.ok) throw apiErrorOf(response.status, response.headers, await response.text())
  return response
}

function plain(line: string): string {
  return (
    line
      .replace(/\r$/, '')
      // eslint-disable-next-line no-control-regex
      .replaceAll(/\u001B(\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001B]*(\u0007|\u001B\\)?|[@-_])/g, '')
      // eslint-disable-next-line no-control-regex
      .replaceAll(/[\u0000-\u0008\u000B-\u001F\u007F]/g, '')
  )
}
