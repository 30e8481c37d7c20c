/**
 * A page whose code is loaded when it is first opened. The router's own lazy component reloads the whole app when that
 * fails, which is wrong while the server is down: the reload replaces the app by the browser's error page, and nothing
 * brings it back. Here the failure is an error of that page alone, and it can be tried again.
 */
import { pause } from '../../src/client/pause.ts'
import { createElement, use, type ComponentType, type ReactNode } from 'react'

/** The code of a page could not be loaded: the server is down, or it has been upgraded and the file is gone. */
export class PageLoadError extends Error {
  override readonly name = 'PageLoadError'
  /** Whether the code is there now. */
  readonly retry: () => Promise<boolean>

  constructor(cause: unknown, retry: () => Promise<boolean>) {
    super('The code of this page could not be loaded', { cause })
    this.retry = retry
  }
}

/** A request that is cut short, as when the network changes, is not worth an error page. */
const PAUSES_MS = [100, 400] as const

async function repeat<T>(load: () => Promise<T>): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await load()
    } catch {
      await pause(pauseMs, new AbortController().signal)
    }
  }
  return load()
}

/** `preload` is how the router has it loaded before the page is shown. It never rejects: rendering throws instead. */
export function lazyPage(load: () => Promise<ComponentType>): (() => ReactNode) & { preload: () => Promise<void> } {
  let page: ComponentType | undefined
  let failure: PageLoadError | undefined
  let loading: Promise<void> | undefined
  const start = async (): Promise<void> => {
    try {
      page = await repeat(load)
      failure = undefined
    } catch (cause) {
      failure = new PageLoadError(cause, async () => {
        await preload()
        return page !== undefined
      })
    }
  }
  const preload = (): Promise<void> => {
    loading ??= start().finally(() => {
      loading = undefined
    })
    return loading
  }
  const LazyPage = (): ReactNode => {
    if (page !== undefined) return createElement(page)
    if (failure !== undefined) throw failure
    use(preload())
    return null
  }
  return Object.assign(LazyPage, { preload })
}
