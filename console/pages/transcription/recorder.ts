/** Records the microphone. The recording is converted, because browsers record in formats that servers do not read. */
import { useCallback, useEffect, useRef, useState } from 'react'
import { limits } from '../../../src/base/limits.ts'
import { toWav } from './sound-file.ts'

/** A WAV file of this length, at 32,000 bytes per second, is just below the maximum size. */
const MAX_SECONDS = Math.floor((limits.soundBytes * 0.99) / 32_000)
const TICK_MS = 250

export interface Recorder {
  /** Browsers give no microphone to pages on plain HTTP. */
  readonly isAvailable: boolean
  readonly isRecording: boolean
  readonly seconds: number
  readonly problem: string | undefined
  readonly start: () => void
  /** Ends the recording and passes it on. */
  readonly stop: () => void
  readonly discard: () => void
}

/** One recording. Its parts arrive when it stops. */
interface Take {
  readonly recorder: MediaRecorder
  isDiscarded: boolean
}

export function useRecorder(onFile: (file: File) => void): Recorder {
  const [startedAt, setStartedAt] = useState<number>()
  const [seconds, setSeconds] = useState(0)
  const [problem, setProblem] = useState<string>()
  const take = useRef<Take>(undefined)
  const end = useCallback((isDiscarded: boolean): void => {
    if (take.current === undefined) return
    take.current.isDiscarded = isDiscarded
    if (take.current.recorder.state !== 'inactive') take.current.recorder.stop()
  }, [])
  useEffect(() => () => end(true), [end])
  useEffect(() => {
    if (startedAt === undefined) return undefined
    const timer = setInterval(() => {
      const passed = (performance.now() - startedAt) / 1_000
      setSeconds(passed)
      if (passed >= MAX_SECONDS) end(false)
    }, TICK_MS)
    return () => clearInterval(timer)
  }, [startedAt, end])

  const record = async (): Promise<void> => {
    setProblem(undefined)
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true })
      const recorder = new MediaRecorder(stream)
      const parts: Blob[] = []
      const current: Take = { recorder, isDiscarded: false }
      take.current = current
      recorder.addEventListener('dataavailable', ({ data }) => parts.push(data))
      recorder.addEventListener('stop', () => {
        for (const track of stream.getTracks()) track.stop()
        setStartedAt(undefined)
        if (current.isDiscarded) return
        toWav(new Blob(parts, { type: recorder.mimeType }), 'recording.wav').then(onFile, (error: unknown) =>
          setProblem(`The browser cannot read its recording: ${messageOf(error)}`),
        )
      })
      recorder.start()
      setSeconds(0)
      setStartedAt(performance.now())
    } catch (error) {
      setProblem(`No recording: ${messageOf(error)}. Check that the browser may use the microphone.`)
    }
  }
  return {
    isAvailable: 'mediaDevices' in navigator && 'MediaRecorder' in globalThis,
    isRecording: startedAt !== undefined,
    seconds,
    problem,
    start: () => void record(),
    stop: () => end(false),
    discard: () => end(true),
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/\.$/, '') : String(error)
}

/** `1:05` */
export function clock(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds) % 60).padStart(2, '0')}`
}
