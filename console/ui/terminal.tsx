/**
 * A terminal over a WebSocket, loaded on first use. Binary messages carry bytes; text messages carry the size to the
 * server and the exit code from it.
 */
import { FitAddon } from '@xterm/addon-fit'
import { Terminal, type ITheme } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef } from 'react'
import { readColor, useScheme, type Scheme } from './scheme.ts'
import { allowStyleOfSpans, withStyleSheets } from './terminal-style.ts'

interface TerminalScreenProps {
  readonly path: `/${string}`
  readonly protocol: string
  readonly label: string
  /** Called once. */
  readonly onEnd: (message: string) => void
  /** Shift+Escape was pressed. */
  readonly onLeave: () => void
}

const SCROLLBACK_LINES = 5_000
/** Output received but not drawn. There is no backpressure over the socket, so beyond this the session ends. */
const PENDING_BYTES = 33_554_432
const FONT_PX = 14
/** Keeps colors chosen for dark screens readable on light ones. */
const CONTRAST = 4.5

export function TerminalScreen(props: TerminalScreenProps) {
  const box = useRef<HTMLDivElement>(null)
  const screen = useRef<Terminal | null>(null)
  const latest = useRef(props)
  const scheme = useScheme()
  useEffect(() => {
    latest.current = props
  })
  useEffect(() => {
    const element = box.current
    if (element === null) return undefined
    const { terminal, dispose } = openTerminal(element, latest)
    screen.current = terminal
    return () => {
      screen.current = null
      dispose()
    }
  }, [])
  useEffect(() => {
    if (screen.current !== null) screen.current.options.theme = themeOf(scheme)
  }, [scheme])
  return (
    <div
      ref={box}
      role="group"
      aria-label={props.label}
      className="h-[28rem] overflow-hidden rounded-lg border border-line bg-surface p-2"
    />
  )
}

function openTerminal(element: HTMLElement, latest: { readonly current: TerminalScreenProps }) {
  allowStyleOfSpans()
  const terminal = new Terminal({
    fontFamily: getComputedStyle(element).getPropertyValue('--font-mono') || 'monospace',
    fontSize: FONT_PX,
    scrollback: SCROLLBACK_LINES,
    minimumContrastRatio: CONTRAST,
    cursorBlink: false,
    screenReaderMode: true,
  })
  const fit = new FitAddon()
  terminal.loadAddon(fit)
  withStyleSheets(() => terminal.open(element))
  fit.fit()
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type !== 'keydown' || event.key !== 'Escape' || !event.shiftKey) return true
    latest.current.onLeave()
    return false
  })
  const line = joinSocket(terminal, latest)
  const watcher = new ResizeObserver(() => fit.fit())
  watcher.observe(element)
  terminal.focus()
  return {
    terminal,
    dispose: () => {
      watcher.disconnect()
      line.close()
      terminal.dispose()
    },
  }
}

function joinSocket(terminal: Terminal, latest: { readonly current: TerminalScreenProps }): { close: () => void } {
  const { path, protocol } = latest.current
  const query = `columns=${terminal.cols}&rows=${terminal.rows}`
  const socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${path}?${query}`, protocol)
  socket.binaryType = 'arraybuffer'
  const encoder = new TextEncoder()
  const send = (data: string | Uint8Array<ArrayBuffer>): void => {
    if (socket.readyState === WebSocket.OPEN) socket.send(data)
  }
  let exitCode: number | null | undefined
  let pending = 0
  let isOver = false
  const end = (message: string): void => {
    if (isOver) return
    isOver = true
    socket.close()
    terminal.options.disableStdin = true
    latest.current.onEnd(message)
  }
  const show = (bytes: Uint8Array): void => {
    pending += bytes.length
    if (pending > PENDING_BYTES) return end('The output was too fast for this page.')
    terminal.write(bytes, () => (pending -= bytes.length))
  }
  socket.addEventListener('message', ({ data }: MessageEvent<ArrayBuffer | string>) => {
    if (isOver) return
    if (typeof data === 'string') exitCode = readExitCode(data)
    else show(new Uint8Array(data))
  })
  socket.addEventListener('close', ({ code, reason }) => end(endMessage(code, reason, exitCode)))
  terminal.onData((text) => send(encoder.encode(text)))
  terminal.onBinary((text) => send(Uint8Array.from(text, (char) => char.codePointAt(0) ?? 0)))
  terminal.onResize(({ cols, rows }) => send(JSON.stringify({ columns: cols, rows })))
  return {
    close: () => {
      // The component is gone: do not report the end.
      isOver = true
      socket.close()
    },
  }
}

function endMessage(code: number, reason: string, exitCode: number | null | undefined): string {
  if (typeof exitCode === 'number') return `The session ended with exit code ${exitCode}.`
  if (code === 1_000) return 'The session ended.'
  return `The session was interrupted: ${reason === '' ? 'connection lost' : reason}.`
}

function readExitCode(text: string): number | null | undefined {
  try {
    return (JSON.parse(text) as { exitCode?: number | null }).exitCode
  } catch {
    return undefined
  }
}

const palette = {
  red: 'bad',
  green: 'good',
  yellow: 'warn',
  blue: 'info',
  cyan: 'accent',
  magenta: 'bad-strong',
} as const

/** The page's own colors. */
function themeOf(scheme: Scheme): ITheme {
  const ink = readColor('ink')
  const surface = readColor('surface')
  const named = Object.entries(palette).flatMap(([name, word]) => {
    const value = readColor(word)
    return [
      [name, value],
      [`bright${name[0]?.toUpperCase() ?? ''}${name.slice(1)}`, value],
    ]
  })
  return {
    ...Object.fromEntries(named),
    background: surface,
    foreground: ink,
    cursor: readColor('accent'),
    cursorAccent: surface,
    selectionBackground: readColor('accent-soft'),
    black: scheme === 'light' ? ink : readColor('line'),
    brightBlack: readColor('muted'),
    white: scheme === 'light' ? readColor('line') : ink,
    brightWhite: scheme === 'light' ? surface : ink,
  }
}
