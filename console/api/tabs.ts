/** Messages between tabs of this browser. A tab does not receive its own. */
interface Tabs<Message> {
  send(message: Message): void
  /** Returns a function that stops listening. */
  listen(listener: (message: Message) => void): () => void
  close(): void
}

export function openTabs<Message>(name: string): Tabs<Message> {
  const channel = new BroadcastChannel(name)
  return {
    // The rule is for windows; a channel only reaches this origin.
    // eslint-disable-next-line unicorn/require-post-message-target-origin
    send: (message) => channel.postMessage(message),
    listen: (listener) => {
      const receive = ({ data }: MessageEvent<Message>): void => listener(data)
      channel.addEventListener('message', receive)
      return () => channel.removeEventListener('message', receive)
    },
    close: () => channel.close(),
  }
}
