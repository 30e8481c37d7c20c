/** placeholder */
