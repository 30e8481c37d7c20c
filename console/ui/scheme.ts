/** Whether the page is light or dark right now, by the person's choice or the system's, for what CSS cannot colour. */
import { useSyncExternalStore } from 'react'

export type Scheme = 'light' | 'dark'

const systemIsDark = matchMedia('(prefers-color-scheme: dark)')

function subscribe(listener: () => void): () => void {
  const chosen = new MutationObserver(listener)
  chosen.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] })
  systemIsDark.addEventListener('change', listener)
  return () => {
    chosen.disconnect()
    systemIsDark.removeEventListener('change', listener)
  }
}

function readScheme(): Scheme {
  const chosen = document.documentElement.dataset['theme']
  if (chosen === 'light' || chosen === 'dark') return chosen
  return systemIsDark.matches ? 'dark' : 'light'
}

export function useScheme(): Scheme {
  return useSyncExternalStore(subscribe, readScheme)
}

/**
 * A colour of the theme, `--word`. They are written as pairs; only the browser can say which of the two it is. It is
 * asked with an element that is new: one that is there may be on its way from another colour.
 */
export function readColour(word: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(--${word})`
  document.documentElement.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
