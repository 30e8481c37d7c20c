/**
 * A page whose code is loaded on first use. The router's own lazy component reloads the app on failure, which shows the
 * browser's error page while the server is down. Here only the page fails, and can be retried.
 */
import { pause } from '../../src/client/pause.ts'
import { createElement, use, type ComponentType, type ReactNode } from 'react'

/** The server is down, or was upgraded and the file is gone. */
export class PageLoadError extends Error {
  override readonly name = 'PageLoadError'
  /** Resolves to whether the code is loaded now. */
  readonly retry: () => Promise<boolean>

  constructor(cause: unknown, retry: () => Promise<boolean>) {
    super('This page could not be loaded', { cause })
    this.retry = retry
  }
}

/** Short network interruptions are retried before the error page. */
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

/** The router calls `preload`. It never rejects: rendering throws instead. */
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
