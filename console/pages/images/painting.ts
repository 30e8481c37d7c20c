/** One picture at a time, followed while it is painted; and the pictures of this visit, newest first. */
import { useEffect, useRef, useState } from 'react'
import type { CallInput } from '../../../src/client/client.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { client } from '../../api/client.ts'
import { fileOf, isStopped, noteRequest, problemOf } from '../../api/inference.ts'

/** Files of pictures stay in the browser's memory for as long as they are shown. */
const MAX_PICTURES = 24

export type PictureOrder = CallInput<'generateImage'>['body']

export interface Painting {
  readonly order: PictureOrder
  readonly requestId: string
  readonly state: 'waiting' | 'painting' | 'stopped' | 'failed'
  /** Requests before it, while it waits and the engine says so. */
  readonly ahead: number | null
  readonly step: number
  readonly steps: number | null
  readonly error: ClientError | null
}

export interface Picture {
  readonly requestId: string
  readonly order: PictureOrder
  readonly url: string
  readonly seed: number
  readonly seconds: number
  readonly notes: readonly string[]
}

export interface Studio {
  /** What is under way, or how the last one went wrong. */
  readonly painting: Painting | undefined
  readonly pictures: readonly Picture[]
  readonly isBusy: boolean
  readonly paint: (order: PictureOrder) => void
  readonly stop: () => void
}

export function useStudio(): Studio {
  const [painting, setPainting] = useState<Painting>()
  const [pictures, setPictures] = useState<readonly Picture[]>([])
  const running = useRef<AbortController>(undefined)
  // Newest first, as the pictures.
  const urls = useRef<string[]>([])
  useEffect(() => {
    const made = urls.current
    return () => {
      running.current?.abort()
      for (const url of made) URL.revokeObjectURL(url)
    }
  }, [])
  const add = (picture: Picture): void => {
    urls.current.unshift(picture.url)
    for (const url of urls.current.splice(MAX_PICTURES)) URL.revokeObjectURL(url)
    setPictures((all) => [picture, ...all].slice(0, MAX_PICTURES))
  }
  const paint = async (order: PictureOrder): Promise<void> => {
    const controller = new AbortController()
    running.current = controller
    setPainting({ order, requestId: '', state: 'waiting', ahead: null, step: 0, steps: null, error: null })
    const change = (more: Partial<Painting>): void =>
      setPainting((now) => (now === undefined ? now : { ...now, ...more }))
    try {
      add(await follow(order, controller.signal, change))
      setPainting(undefined)
    } catch (error) {
      change(isStopped(error) ? { state: 'stopped' } : { state: 'failed', error: problemOf(error) })
    }
    await noteRequest()
  }
  return {
    painting,
    pictures,
    isBusy: painting?.state === 'waiting' || painting?.state === 'painting',
    paint: (order) => void paint(order),
    stop: () => running.current?.abort(),
  }
}

async function follow(
  order: PictureOrder,
  signal: AbortSignal,
  change: (more: Partial<Painting>) => void,
): Promise<Picture> {
  const stream = await client.stream('generateImage', { body: order, signal })
  const { requestId } = stream
  change({ requestId })
  for await (const event of stream) {
    if (event.type === 'queued') change({ ahead: event.ahead })
    else if (event.type === 'progress') change({ state: 'painting', step: event.step, steps: event.steps })
    else {
      const [image] = event.images
      if (image === undefined) break
      return {
        requestId,
        order,
        url: fileOf(image.image, 'image/png'),
        seed: image.random_seed,
        seconds: event.inference_time,
        notes: event.notes ?? [],
      }
    }
  }
  throw new Error('the answer has no picture')
}
