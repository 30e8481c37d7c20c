/** Words between the tabs of this browser that are open on this server. A tab does not hear what it says itself. */
interface Tabs<Word> {
  tell(word: Word): void
  /** Gives the way to hear no more. */
  listen(listener: (word: Word) => void): () => void
  close(): void
}

export function openTabs<Word>(name: string): Tabs<Word> {
  const channel = new BroadcastChannel(name)
  return {
    // The rule is for windows; a channel reaches pages of this origin only.
    // eslint-disable-next-line unicorn/require-post-message-target-origin
    tell: (word) => channel.postMessage(word),
    listen: (listener) => {
      const hear = ({ data }: MessageEvent<Word>): void => listener(data)
      channel.addEventListener('message', hear)
      return () => channel.removeEventListener('message', hear)
    },
    close: () => channel.close(),
  }
}
