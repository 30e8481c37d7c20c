/** Starts the console: one router, one cache of answers, one root. */
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { z } from 'zod'
import { queries } from './api/query.ts'
import { router } from './routes.tsx'
import './theme.css'
import { Toasts } from './ui/toast.tsx'

// Schemas that were compiled to code would need `unsafe-eval`, which the page's policy forbids.
z.config({ jitless: true })

const root = document.getElementById('root')
if (root === null) throw new Error('the page has no element "root"')
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
      <Toasts />
    </QueryClientProvider>
  </StrictMode>,
)
