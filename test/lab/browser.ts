/**
 * The console in a real browser on a real server. Script errors, content security policy violations and requests to
 * other hosts are collected. `look` checks the current page in light and dark mode: no collected errors and no serious
 * accessibility faults.
 *
 * With BERTH_SCREENSHOTS=<folder> each check saves a screenshot there.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import {
  chromium,
  type Browser,
  type BrowserContext,
  type ConsoleMessage,
  type Locator,
  type Page,
  type Request,
} from 'playwright-core'
import { inject } from 'vitest'
import { CONSOLE_HEADER, CONSOLE_HEADER_VALUE, SESSION_PATH } from '../../src/contract/session.ts'
import { testServer, type TestServer, type TestServerOptions } from '../harness/server.ts'

/**
 * Prefers the headless shell, which takes a quarter less time; then the browser binary itself rather than its wrapper.
 */
const CHROMIUM = [
  '/usr/bin/chromium-headless-shell',
  '/usr/lib/chromium/chromium',
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
]
/** How long the browser waits for anything. A busy CI machine is slow, not broken. */
const WAIT_MS = 60_000

/** The reason there is no browser here; undefined if there is one. */
export function whyNoBrowser(): string | undefined {
  return CHROMIUM.some((one) => existsSync(one)) ? undefined : 'Chromium is not installed'
}

export const browserLeftOut = whyNoBrowser() === undefined ? '' : ` (left out: ${whyNoBrowser()})`

export interface ConsoleBrowser {
  readonly server: TestServer
  /** A browser signed in with this key; null: not signed in. */
  readonly open: (key: string | null, options?: { width?: number; height?: number }) => Promise<ConsolePage>
  readonly close: () => Promise<void>
}

export interface ConsolePage {
  readonly page: Page
  readonly context: BrowserContext
  /** Opens a console page by its path and waits for its heading. */
  readonly visit: (path: string, heading: string | RegExp) => Promise<void>
  /** Checks the current page in light and dark mode. Throws with all faults. */
  readonly look: (name: string) => Promise<void>
  /** Errors the browser has reported since the previous call. */
  readonly faults: () => readonly string[]
  readonly close: () => Promise<void>
}

/** Shared by all files of this worker, because a start takes seconds. It ends with the worker. */
let launched: Promise<Browser> | undefined

function launch(): Promise<Browser> {
  launched ??= startChromium()
  return launched
}

/** A browser that failed to start or has died is dropped: the next caller gets a new one. */
async function startChromium(): Promise<Browser> {
  const forget = (): void => {
    launched = undefined
  }
  const executablePath = CHROMIUM.find((one) => existsSync(one)) ?? ''
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const cheap = ['--disable-gpu', '--disable-software-rasterizer', '--disable-extensions', '--in-process-gpu']
  try {
    // A microphone that beeps, and that every page may use: without a window the browser cannot ask.
    const microphone = ['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream']
    const args = [...asRoot, '--disable-dev-shm-usage', ...microphone, ...cheap]
    const browser = await chromium.launch({ executablePath, args })
    browser.once('disconnected', forget)
    return browser
  } catch (error) {
    forget()
    throw error
  }
}

export async function openBrowser(options: TestServerOptions = {}): Promise<ConsoleBrowser> {
  const server = await testServer({ consoleDir: inject('consoleDir'), ...options })
  try {
    await launch()
  } catch (error) {
    await server.close()
    throw error
  }
  const contexts: BrowserContext[] = []
  /** Closed pages, for the next callers: a new one starts a process and loads everything anew, a second of work. */
  const idle: Page[] = []
  return {
    server,
    open: async (key, { width = 1280, height = 800 } = {}) => {
      const page = idle.pop() ?? (await openPage(await launch(), server.url))
      const context = page.context()
      if (!contexts.includes(context)) contexts.push(context)
      await page.setViewportSize({ width, height })
      if (key !== null) await signIn(context, key)
      return watchedPage(page, server.url, () => idle.push(page))
    },
    close: async () => {
      try {
        await Promise.all(contexts.map((context) => context.close()))
      } finally {
        await server.close()
      }
    },
  }
}

/** A page of another site, which nothing watches. Its context belongs to the caller. */
export async function openOtherSite(url: string): Promise<Page> {
  return openPage(await launch(), url)
}

async function openPage(browser: Browser, url: string): Promise<Page> {
  const context = await browser.newContext({
    baseURL: url,
    reducedMotion: 'reduce',
    locale: 'en-US',
    timezoneId: 'UTC',
    permissions: ['clipboard-read', 'clipboard-write'],
  })
  context.setDefaultTimeout(WAIT_MS)
  return context.newPage()
}

function watchedPage(page: Page, url: string, giveBack: () => void): ConsolePage {
  const context = page.context()
  let problems: string[] = []
  const unwatch = watch(page, url, (text) => problems.push(text))
  const faults = (): readonly string[] => {
    const reported = problems
    problems = []
    return reported
  }
  return {
    page,
    context,
    faults,
    visit: async (to, heading) => {
      await page.goto(to)
      await page.getByRole('heading', { level: 1, name: heading }).waitFor()
    },
    look: async (name) => {
      const wrong = [...faults()]
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        // The dark page has the same content; only the colors differ.
        const rules = colorScheme === 'light' ? tags : ['color-contrast']
        wrong.push(...(await readAxe(page, rules)).map((fault) => `${colorScheme}: ${fault}`))
        await saveScreenshot(page, `${name}-${colorScheme}`)
      }
      await page.emulateMedia({ colorScheme: 'light' })
      if (wrong.length > 0) throw new Error(`${name}:\n${wrong.join('\n')}`)
    },
    close: async () => {
      const left = faults()
      unwatch()
      await forgetAll(page, url)
      giveBack()
      if (left.length > 0) throw new Error(`The browser complained:\n${left.join('\n')}`)
    },
  }
}

/** Leaves a page as if it had never been used: no cookies, no stored data, no other pages beside it. */
async function forgetAll(page: Page, url: string): Promise<void> {
  const context = page.context()
  await Promise.all(
    context
      .pages()
      .filter((other) => other !== page)
      .map((other) => other.close()),
  )
  await page.unrouteAll({ behavior: 'ignoreErrors' })
  if (page.url().startsWith(url)) await page.evaluate('sessionStorage.clear()')
  // No script runs there, and the process stays: another site, such as about:blank, would get a new one.
  await page.goto('/favicon.svg')
  await context.clearCookies()
  const session = await context.newCDPSession(page)
  await session.send('Storage.clearDataForOrigin', { origin: new URL(url).origin, storageTypes: 'all' })
  await session.detach()
}

/** Performs an action confirmed by a message that disappears on its own: starts watching for it beforehand. */
export async function expectDuring(words: Locator, act: () => Promise<unknown>): Promise<void> {
  await Promise.all([words.waitFor(), act()])
}

async function signIn(context: BrowserContext, key: string): Promise<void> {
  const reply = await context.request.post(SESSION_PATH, {
    headers: { [CONSOLE_HEADER]: CONSOLE_HEADER_VALUE },
    data: { key },
  })
  if (!reply.ok()) throw new Error(`Sign-in failed: ${reply.status()} ${await reply.text()}`)
}

/** Reports faults until the returned function is called. */
function watch(page: Page, url: string, report: (text: string) => void): () => void {
  const onError = (error: Error): void => report(`script: ${error.message}`)
  const onMessage = (message: ConsoleMessage): void => {
    if (message.type() !== 'error' && message.type() !== 'warning') return
    // An API refusal is a valid answer, but the browser logs each of them.
    if (/^Failed to load resource: the server responded with a status of 4\d\d/.test(message.text())) return
    // Network tests added or removed interfaces on this machine; the page has retried.
    if (message.text().includes('net::ERR_NETWORK_CHANGED')) return
    report(`console: ${message.text()}`)
  }
  const onRequest = (request: Request): void => {
    const isOwn = request.url().startsWith(url) || /^(data|blob):/.test(request.url())
    if (!isOwn) report(`a request to ${request.url()}`)
  }
  page.on('pageerror', onError).on('console', onMessage).on('request', onRequest)
  return () => page.off('pageerror', onError).off('console', onMessage).off('request', onRequest)
}

let axe: Promise<string> | undefined
const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']

interface AxeFault {
  readonly id: string
  readonly impact: string | null
  readonly nodes: ReadonlyArray<{ readonly html: string; readonly failureSummary?: string }>
}

/** Faults that axe rates moderate but that make pages hard to navigate. */
const alsoCounts: ReadonlySet<string> = new Set(['landmark-unique', 'landmark-no-duplicate-main', 'heading-order'])

/**
 * Without what no rule or message here needs: fetching style sheets, selectors of every element, frames. That is a
 * third of the time.
 */
const axeOptions = { resultTypes: ['violations'], preload: false, selectors: false, elementRef: false, iframes: false }

/** Serious and critical faults, each with its element. */
async function readAxe(page: Page, rules: readonly string[]): Promise<string[]> {
  axe ??= readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  if (await page.evaluate<boolean>('globalThis.axe === undefined')) await page.evaluate(`${await axe};0`)
  // The colors of a new theme appear with the next frame.
  await page.evaluate('new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
  const options = JSON.stringify({ ...axeOptions, runOnly: rules })
  const found = await page.evaluate<AxeFault[]>(`axe.run(document, ${options}).then((result) => result.violations)`)
  return found
    .filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || alsoCounts.has(id))
    .flatMap((fault) => fault.nodes.map((node) => `${fault.id}: ${node.html} (${node.failureSummary ?? ''})`))
}

async function saveScreenshot(page: Page, name: string): Promise<void> {
  const folder = process.env['BERTH_SCREENSHOTS']
  if (folder === undefined) return
  // The bar at the top stays in view; in a picture of the whole page it would cover what is scrolled to.
  await page.evaluate('scrollTo(0, 0)')
  await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true })
}
