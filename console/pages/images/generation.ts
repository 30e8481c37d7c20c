/** Generates one image at a time, with progress, and keeps the images in this browser, newest first. */
import { useEffect, useEffectEvent, useRef, useState } from 'react'
import { systemClock } from '../../../src/base/instant.ts'
import type { ClientError } from '../../../src/client/error.ts'
import { client } from '../../api/client.ts'
import { fileOf, isStopped, noteRequest, problemOf } from '../../api/inference.ts'
import { useMe } from '../../api/me.ts'
import { clearImages, keepImage, MAX_IMAGES, readImages, type KeptImage } from './history.ts'
import type { GeneratedImage, ImageOrder } from './image.ts'

export interface Generation {
  readonly order: ImageOrder
  readonly requestId: string
  readonly state: 'waiting' | 'running' | 'stopped' | 'failed'
  /** The number of requests ahead in the queue, if the engine reports it. */
  readonly ahead: number | null
  readonly step: number
  readonly steps: number | null
  readonly error: ClientError | null
}

export interface Images {
  /** The image in progress, or the last failure. */
  readonly generation: Generation | undefined
  readonly images: readonly GeneratedImage[]
  readonly isBusy: boolean
  readonly generate: (order: ImageOrder) => void
  readonly stop: () => void
  /** Forgets all images. */
  readonly clear: () => void
}

export function useImages(): Images {
  const accountId = useMe().account.id
  const [generation, setGeneration] = useState<Generation>()
  const [images, setImages] = useState<readonly GeneratedImage[]>([])
  const running = useRef<AbortController>(undefined)
  // Newest first, like the images.
  const urls = useRef<string[]>([])
  useEffect(() => {
    const list = urls.current
    return () => {
      running.current?.abort()
      for (const url of list) URL.revokeObjectURL(url)
    }
  }, [])
  const show = ({ file, atMs: _atMs, ...image }: KeptImage): GeneratedImage => {
    const url = URL.createObjectURL(file)
    urls.current.unshift(url)
    return { ...image, url }
  }
  const showKept = useEffectEvent((storedImages: readonly KeptImage[]) => {
    const older = storedImages.toReversed().map(show).toReversed()
    setImages((all) => [...all, ...older].slice(0, MAX_IMAGES))
  })
  useEffect(() => {
    void readImages(accountId).then(showKept)
  }, [accountId])
  const add = (image: KeptImage): void => {
    const newImage = show(image)
    for (const url of urls.current.splice(MAX_IMAGES)) URL.revokeObjectURL(url)
    setImages((all) => [newImage, ...all].slice(0, MAX_IMAGES))
    void keepImage(accountId, image)
  }
  const generate = async (order: ImageOrder): Promise<void> => {
    const controller = new AbortController()
    running.current = controller
    setGeneration({ order, requestId: '', state: 'waiting', ahead: null, step: 0, steps: null, error: null })
    const change = (more: Partial<Generation>): void =>
      setGeneration((now) => (now === undefined ? now : { ...now, ...more }))
    try {
      add(await follow(order, controller.signal, change))
      setGeneration(undefined)
    } catch (error) {
      change(isStopped(error) ? { state: 'stopped' } : { state: 'failed', error: problemOf(error) })
    }
    await noteRequest()
  }
  return {
    generation,
    images,
    isBusy: generation?.state === 'waiting' || generation?.state === 'running',
    generate: (order) => void generate(order),
    stop: () => running.current?.abort(),
    clear: () => {
      setImages([])
      for (const url of urls.current.splice(0)) URL.revokeObjectURL(url)
      void clearImages(accountId)
    },
  }
}

async function follow(
  order: ImageOrder,
  signal: AbortSignal,
  change: (more: Partial<Generation>) => void,
): Promise<KeptImage> {
  const stream = await client.stream('generateImage', { body: order, signal })
  const { requestId } = stream
  change({ requestId })
  for await (const event of stream) {
    if (event.type === 'queued') change({ ahead: event.ahead })
    else if (event.type === 'progress') change({ state: 'running', step: event.step, steps: event.steps })
    else {
      const [image] = event.images
      if (image === undefined) break
      return {
        requestId,
        order,
        file: fileOf(image.image, 'image/png'),
        atMs: systemClock.now(),
        seed: image.random_seed,
        seconds: event.inference_time,
        notes: event.notes ?? [],
      }
    }
  }
  throw new Error('the response contains no image')
}
