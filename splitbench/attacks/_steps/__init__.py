"""Batches and optimiser steps."""
